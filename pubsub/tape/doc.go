// Package tape owns recordings of cores: what each was told and what it decided, and their replay, in which the same
// cores decide again in no time and each difference shows.
//
// A recording is lines of JSON in segments, each readable without those before it: the first step of a core in a
// segment comes with the core's state. Values have the names of their types and fields, so that another version of the
// program can read them. Long values that come again stand once in a segment, under their digest.
//
// It never decides anything, changes no core, and writes no file: what takes the text of a segment may be slow, fail or
// hang, and costs a core nothing but the recording. Texts that are secrets are replaced before they are written, the
// same secret by the same word.
//
// Read recorder.go first, then player.go; codec.go is how any Go value becomes text and a value again.
package tape
