"""Neural and minority collapse in trained networks (document 001; 000, part I)."""
