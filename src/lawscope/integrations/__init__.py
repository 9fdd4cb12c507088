"""lawscope inside other libraries."""
