package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFolderOfAnotherRunIsNotTaken(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 { // new, and empty
		if err := unused(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "report.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unused(dir); err == nil {
		t.Error("a folder with a report is taken")
	}
}
