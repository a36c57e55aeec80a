package agent

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"edgespan/config/nodeconf/commitconfirm"
)

// A config file that is not there is a problem if it should be: nothing else runs, or it ran before.
func TestAMissingConfigFileIsAProblemOnlyIfTheConfigIsNoOther(t *testing.T) {
	onRig(t, func(r *rig) {
		again := func(what string, problem bool) {
			t.Helper()
			r.stop()
			r.start()
			r.settle(time.Second)
			if got := r.host.trouble; strings.Contains(got, "read the config file: ") != problem || !problem && got != "" {
				t.Errorf("%s: the problem is %q", what, got)
			}
		}
		r.hasFile, r.fileErr = true, fs.ErrNotExist
		again("without any config", true)
		if err := r.apply(`{"a":1}`); err != nil {
			t.Fatal(err)
		}
		again("after an apply", false)
		r.runs("after an apply", `{"a":1}`, commitconfirm.Apply)
		r.file, r.fileErr = []byte("a: 7\n"), nil
		again("with the file", false)
		r.runs("with the file", `{"a":7}`, commitconfirm.File)
		r.fileErr = fs.ErrNotExist
		again("without the file that ran", true)
		r.runs("without the file that ran", `{"a":7}`, commitconfirm.File)
	})
}
