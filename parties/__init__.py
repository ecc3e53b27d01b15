"""A member: the actor that gives its role a life in time, over a channel, and what it keeps."""
