"""The worlds that ship, one file each. They are read as files, as one's own worlds are."""
