"""Members: the actor that runs a role over a channel, and the files that a member keeps."""
