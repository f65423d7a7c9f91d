"""The Renderer port, over the workers of `kais_rendering`."""
