"""Studies of seconds, for the tests of the engine; found through LAWSCOPE_STUDIES."""
