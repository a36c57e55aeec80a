package redact

import (
	"strings"
	"testing"
)

func BenchmarkALog(b *testing.B) {
	line := `{"level":"info","ts":"2026-11-25T23:41:33.123Z","msg":"node runs","version":"v1","config":"/etc/edgespan/node.yaml","socket":"/run/edgespan/edgespan.sock"}` + "\n"
	text := []byte(strings.Repeat(line, 4<<20/len(line)))
	var r Redactor
	for _, s := range []string{"canary-1", "canary-22", "hunter2hunter2"} {
		r.Learn(s)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Text(text)
	}
}
