package ops

import (
	"slices"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/layers"
	"edgespan/config/layers/migrate"
)

const eapolOld = `{"radioParamsBase":{"wsecParams":{"eapolParams":{"a":"x"}}}}`

func TestMigrateBringsAllLayersOrNone(t *testing.T) {
	b := newBench(t, "n1", "n2")
	old := doc(t, eapolOld)
	stored := func(l ...history.Layer) {
		c := history.Change{Layers: map[history.Layer]config.Object{}}
		for _, one := range l {
			c.Layers[one] = old
		}
		b.commit(WriteOutcome{Change: c})
	}
	if o := b.do(Migrate{}); o.Migrated != nil || len(o.Change.Layers) > 0 {
		t.Errorf("an empty store: %+v", o)
	}
	network := history.Layer{Kind: history.Network}
	stored(network, nodeLayer("n1"), autoLayer("n2"), history.Layer{Kind: history.E2E, Name: controllerFile})
	b.Migrated = migrate.Done{"RELEASE_M": "RELEASE_M78"}
	if o := b.do(Migrate{}); o.Migrated != nil {
		t.Errorf("what was done before: %v", o.Migrated)
	}
	b.Migrated = nil
	b.Nodes["n2"] = NodeFact{ID: "id-n2", Versions: layers.Versions{Software: "RELEASE_M77"}}
	if o := b.do(Migrate{}); o.Migrated != nil {
		t.Errorf("beside a node of RELEASE_M77: %v", o.Migrated)
	}
	if held := b.HeldBy(b.DueMigrations().Held[0]); !slices.Equal(held, []string{"n2"}) {
		t.Errorf("held by %v", held)
	}
	delete(b.Nodes, "n2")
	o := b.do(Migrate{})
	const want = "RELEASE_M78: radioParamsBase.wsecParams.eapolParams -> eapolParams in 3 layers"
	if o.MigratedText() != want || !slices.Equal(o.Migrated[0].Layers, []string{"auto/n2", "network", "node/n1"}) {
		t.Errorf("%s: %+v", o.MigratedText(), o.Migrated)
	}
	stored(network)
	b.commit(WriteOutcome{Change: history.Change{Layers: map[history.Layer]config.Object{nodeLayer("n1"): doc(t,
		`{"eapolParams":{"a":{}},"radioParamsBase":{"wsecParams":{"eapolParams":{"a":"x"}}}}`)}}})
	b.refuses(Migrate{}, `node/n1.radioParamsBase.wsecParams.eapolParams.a: invalid type`)
}

func TestAnImportIsBroughtToTheKeysOfTheFleet(t *testing.T) {
	b := newBench(t, "n1")
	b.Migrated = migrate.Done{"RELEASE_M": "RELEASE_M79"}
	b.Hardware.Base = []string{"RELEASE_M80", "RELEASE_M81"}
	b.Nodes["n1"] = NodeFact{ID: "id-n1", Versions: layers.Versions{Software: "RELEASE_M44"}} // joined after that was done
	files := history.Files{Nodes: config.Object{"n1": doc(t, eapolOld)},
		Network: doc(t, `{"envParams":{"OPENR_IFACE_PREFIXES":"terra"}}`)}
	o := b.do(Import{Files: files})
	if got := strings.Join(o.Warnings, "\n"); !strings.Contains(got,
		"migrated: RELEASE_M78: radioParamsBase.wsecParams.eapolParams -> eapolParams in node/n1") ||
		!strings.Contains(got,
			"migrated: RELEASE_M79: envParams.OPENR_IFACE_PREFIXES -> envParams.OPENR_IFACE_REGEX_INCLUDE in network") {
		t.Errorf("%s", got)
	}
	if v, _ := b.State.Layer(nodeLayer("n1")); !config.Equal(v.Document, doc(t, `{"eapolParams":{"a":"x"}}`)) {
		t.Errorf("%v", v.Document)
	}
	if o := b.do(Import{Files: files}); o.Migrated != nil || len(o.Change.Layers) > 0 {
		t.Errorf("the same once more: %+v", o)
	}
	b.refuses(Import{Files: history.Files{Network: doc(t, `{"envParams":{"OPENR_IFACE_PREFIXES":5}}`)}},
		"network.envParams.OPENR_IFACE_PREFIXES: invalid type int64")
	if text := (WriteOutcome{Migrated: []Moved{
		{Version: "V", From: "a", Layers: []string{"network"}},
		{Version: "V", From: "b", To: "c", Kept: true, Layers: []string{"x", "y"}}, {}, {}, {}, {}, {},
	}[:2]}).MigratedText(); text != "V: a is gone in network; V: b is gone in 2 layers: c is set already and stays" {
		t.Error(text)
	}
}
