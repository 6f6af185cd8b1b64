"""Text that the project writes: skills that experts learn, and the background that their base is trained on."""
