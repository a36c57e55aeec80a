// Command mutate counts what the tests of a pure core notice: it runs them once per mutant, a change of
// one operator that go-gremlins names. All mutants of a package are compiled into one test program, which is
// told by its environment which one to be; docs/adr/0031-which-mutants-count.md says why, and which count.
//
// It never changes a file of the tree: what it writes goes to a temporary folder and reaches the compiler as
// an overlay.
package main
