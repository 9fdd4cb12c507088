"""Streaming, mergeable sufficient statistics."""
