"""What symmetries cost a network: dead units, lost rank, identical neurons (Ziyin 2024)."""
