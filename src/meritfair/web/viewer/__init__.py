"""The lab in the browser: a sweep or a reproduction, read from its folder and never changed."""
