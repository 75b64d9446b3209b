"""Scripts of the project itself: the generated reference and the benchmarks."""
