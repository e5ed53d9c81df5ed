"""Any embedding table made small: readers, the coding itself, and the choice of sizes."""
