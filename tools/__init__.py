"""Scripts for developing railbed: generated reference, pictures, benchmarks, soak tests, set-up."""
