"""Acting and learning where tensors are computed on a device of their own: a GPU, or the CPU by the same code.

`place.py` says which device and how it computes; `planes.py` and `lists.py` make a network's input from what the
environment writes; `policy.py` acts by an `engine.py`, `rows.py` and `ppo.py` learn; `graphs.py` replays.
"""
