"""Checkpoints of all that a resumed run needs: `config`, `store` (save, restore), `manifest`."""
