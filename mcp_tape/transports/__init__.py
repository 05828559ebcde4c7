"""Where bytes move: reading, writing, waiting and process shutdown. The core only decides."""
