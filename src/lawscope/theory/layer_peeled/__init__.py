"""The Layer-Peeled Model, solved to a dual certificate. The derivation: docs/layer-peeled.md."""
