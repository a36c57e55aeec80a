package puppet

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The unit tests of the Ruby code, each file in a process of its own.
func TestRuby(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(module(t), "test", "*_test.rb"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			out, said, err := run(t, exec.CommandContext(t.Context(), "ruby", "-I", filepath.Join(module(t), "lib"), file))
			if err != nil || !strings.Contains(out, ", 0 failures, 0 errors, 0 skips") ||
				strings.Contains(out, " 0 assertions,") {
				t.Errorf("%v: %s%s", err, out, said)
			}
		})
	}
}
