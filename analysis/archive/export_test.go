package archive

// YearArchive makes the archive of the benchmarks.
var YearArchive = yearArchive
