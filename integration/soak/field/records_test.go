package field

import (
	"encoding/json"
	"strings"
	"testing"

	"edgespan/integration/soak/guest"
)

func TestAJournalThatIsUnlikeTheState(t *testing.T) {
	type values = map[string]string
	for name, c := range map[string]struct {
		known, stored values
		code          int
		want          []string // parts of the text; none: it is alike
	}{
		"alike":            {values{"n a": "1", "n b": "2"}, values{"n a": "1", "n b": "2"}, 0, nil},
		"another value":    {values{"n a": "1"}, values{"n a": "2"}, 0, []string{`n a: the daemon has "1", its journal "2"`}},
		"not stored":       {values{"n a": "1"}, nil, 0, []string{`n a: the daemon has "1", its journal ""`}},
		"not deleted":      {values{"n a": "1"}, values{"n a": "1", "n b": "2"}, 0, []string{`n b: the daemon has ""`}},
		"nothing at all":   {nil, nil, 0, []string{"no records"}},
		"several":          {values{"n a": "1", "n b": "1"}, values{"n c": "1"}, 0, []string{"n a", "n b", "n c"}},
		"it can't be read": {values{"n a": "1"}, values{"n a": "1"}, 1, []string{"exit code 1"}},
	} {
		out, err := json.Marshal(guest.Records{Known: c.known, Stored: c.stored})
		if err != nil {
			t.Fatal(err)
		}
		got := unlike(c.code, string(out))
		if (got == "") != (c.want == nil) {
			t.Errorf("%s: %q", name, got)
		}
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q: lacks %q", name, got, part)
			}
		}
	}
	if got := unlike(0, "soak: connection refused"); got == "" {
		t.Error("what is not read is not judged")
	}
}
