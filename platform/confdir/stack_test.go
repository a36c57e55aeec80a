package confdir

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"edgespan/config"
	"edgespan/config/layers"
)

func TestStackPutsTheProgramsLayersFirst(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{
		"EDGESPAN_0_1.json": `{"from":"folder"}`, "RELEASE_M20.json": `{"from":"release"}`,
		"fw_versions/FW_1.json": `{"fw":1}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	carried := map[string]config.Object{"EDGESPAN_0_1": {"from": "program"}, "EDGESPAN_0_2": {"from": "program"}}
	s := NewStack(carried, dir)
	lib, err := s.Library()
	if err != nil || !slices.Equal(lib.Base, []string{"EDGESPAN_0_1", "EDGESPAN_0_2", "RELEASE_M20"}) ||
		!slices.Equal(lib.Firmware, []string{"FW_1"}) {
		t.Errorf("%+v, %v", lib, err)
	}
	if hidden, err := s.Hidden(); err != nil || !slices.Equal(hidden, []string{"EDGESPAN_0_1"}) {
		t.Errorf("hidden %q, %v", hidden, err)
	}
	for name, from := range map[string]string{"EDGESPAN_0_1": "program", "RELEASE_M20": "release"} {
		set, err := s.Read(layers.Choice{Base: name, Firmware: "FW_1"})
		if err != nil || set[layers.Base]["from"] != from || set[layers.Firmware] == nil {
			t.Errorf("%s: %v, %v", name, set, err)
		}
	}
	if set, err := s.Read(layers.Choice{Base: "EDGESPAN_0_1", Firmware: "FW_2"}); err == nil {
		t.Errorf("a firmware layer that is not there: %v", set)
	}

	alone := NewStack(carried, "")
	if lib, err := alone.Library(); err != nil || len(lib.Base) != 2 {
		t.Errorf("without a folder: %+v, %v", lib, err)
	}
	if set, err := alone.Read(layers.Choice{Base: "EDGESPAN_0_2"}); err != nil ||
		!reflect.DeepEqual(set[layers.Base], carried["EDGESPAN_0_2"]) {
		t.Errorf("without a folder: %v, %v", set, err)
	}
	if _, err := NewStack(carried, filepath.Join(dir, "none")).Library(); err == nil {
		t.Error("a folder that is not there was taken for an empty one")
	}
}
