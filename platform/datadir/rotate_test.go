package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestALogIsBounded writes twenty times what a log may have.
func TestALogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := os.WriteFile(path+".1", []byte("logrotate's"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &Rotation{Path: path, Limit: 1000, Keep: 3}
	now := time.Now()
	for i := range 80 {
		if err := a.Write(map[string]string{"n": fmt.Sprint(i), "text": strings.Repeat("x", 1000)}); err != nil {
			t.Fatal(err)
		}
		if due, err := r.Due(now); err != nil {
			t.Fatal(err)
		} else if due {
			if err := a.Reopen(); err != nil {
				t.Fatal(err)
			}
		}
		if due, _ := r.Due(now); due {
			t.Fatal("it is looked at twice in a moment")
		}
		now = now.Add(2 * rotationCheckEvery)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 5 {
		t.Fatalf("%v, %v", files, err)
	}
	if text, err := os.ReadFile(path + ".1"); string(text) != "logrotate's" {
		t.Errorf("the file of another rotation: %.60s, %v", text, err)
	}
	for name, newest := range map[string]string{path + ".kept.1": "79", path + ".kept.2": "78", path + ".kept.3": "77"} {
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(text), `"n":"`+newest+`"`) || len(text) > 1100 {
			t.Errorf("%s: %.60s, %v", name, text, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if due, err := r.Due(now); !due || err != nil {
		t.Errorf("a log that is not there is not opened anew: %t, %v", due, err)
	}
	if due, err := (&Rotation{Path: path}).Due(now); due || err != nil {
		t.Errorf("without a limit: %t, %v", due, err)
	}
}
