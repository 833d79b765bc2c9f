"""Worker processes that play blocks: started, watched, fed and replaced. No lock and no queue is shared with them."""
