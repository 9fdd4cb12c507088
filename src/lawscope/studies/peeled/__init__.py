"""The Layer-Peeled Model: the figures of Fang, He, Long & Su (document 001; 000, part I)."""
