//! Sessions whose server speaks by calling a URL of the client's.
