"""apex for Python programs that want to talk to it; without apex everything does nothing."""
