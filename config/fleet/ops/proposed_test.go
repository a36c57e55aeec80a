package ops

import (
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// What a proposal calls secret is masked, also where its metadata has what only a vendor knows; and all of its values
// where nobody can tell what it calls secret.
func TestAProposalsOwnSecretsAreMasked(t *testing.T) {
	t.Parallel()
	entry := func(action string) string {
		return `{"acme":{"type":"OBJECT","desc":"x","action":"` + action +
			`","objVal":{"properties":{"pw":{"type":"STRING","desc":"x","secret":true,"action":"` + action + `"}}}}}`
	}
	for _, one := range []struct {
		name, metadata string
		open           bool // what is no secret is shown
	}{
		{"none but ours", entry("NO_ACTION"), true},
		{"a vendor's actions", entry("VENDOR_RESTART"), true},
		{"an entry with a fault", strings.Replace(entry("NO_ACTION"), `"type":"STRING"`, `"type":"TEXT"`, 1), false},
		{"a fault elsewhere", entry("NO_ACTION")[:len(entry("NO_ACTION"))-1] + `,"other":{"desc":"x"}}`, false},
		{"blocks that copy themselves", `{"acme":{"__copy_block__":"acme"}}`, false},
		{"no object", `"acme.pw"`, false},
		{"a list", `[]`, false},
		{"null", `null`, false},
	} {
		doc, faults := config.ParseObject([]byte(`{"base":{"V1":{"acme":{"pw":"hidden-1","port":"shown-1"},"list":["shown-2"]}},
			"hardware":{"V1":{"acme":{"pw":"hidden-2"},"top":"shown-3","nothing":null}},"metadata":` + one.metadata + `}`))
		if faults != nil {
			t.Fatal(faults)
		}
		none, faults := metadata.Parse(config.Object{}, metadata.Options{})
		if faults != nil {
			t.Fatal(faults)
		}
		w := &Snapshot{Metadata: none, MaskKey: []byte("k")}
		d, err := w.Proposed(doc, false)
		text := string(config.AppendCanonical(nil, d.Object))
		if err != nil || strings.Contains(text, "hidden-") || !strings.Contains(text, `"acme": {`) {
			t.Errorf("%s: %v %s", one.name, err, text)
		}
		if n := strings.Count(text, "shown-"); n != map[bool]int{true: 3}[one.open] {
			t.Errorf("%s: shows %d of what is no secret: %s", one.name, n, text)
		}
		if d.Digest == config.MD5(doc) {
			t.Errorf("%s: has a digest without a key", one.name)
		}
		d, err = w.Proposed(doc, true)
		if text := string(config.AppendCanonical(nil, d.Object)); err != nil || strings.Count(text, "hidden-") != 2 {
			t.Errorf("%s, revealed: %v %s", one.name, err, text)
		}
	}
}
