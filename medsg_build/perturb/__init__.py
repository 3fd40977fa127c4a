"""Ways to change a picture inside a mask, or to move it. One file each, found by name."""
