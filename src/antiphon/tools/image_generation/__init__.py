"""The tool `image_generation`: who makes the images, and its calls."""
