package schema

import (
	"embed"
	"path"
	"strings"

	"edgespan/config"
)

//go:embed node_metadata.json base
var files embed.FS

// BaseVersion is the newest of our base layers, and what their files are called by.
const BaseVersion = "EDGESPAN_0_1"

var nodeMetadata, nodeBases = read("node_metadata.json"), bases()

// NodeMetadata is the metadata of a node's configuration. Beside the seed's properties an
// entry has ours (docs/adding-configuration.md): strict, default, optional, requiredWhen,
// unsupported, the words that a string must be, and the words of a map's keys.
func NodeMetadata() config.Object { return nodeMetadata }

// NodeBase is the base layer of this program's version: the defaults of all fields that do
// not lie below free keys.
func NodeBase() config.Object { return nodeBases[BaseVersion] }

// NodeBases are the base layers of all versions, by the names of their files.
func NodeBases() map[string]config.Object { return nodeBases }

func bases() map[string]config.Object {
	out := map[string]config.Object{}
	entries, err := files.ReadDir("base")
	if err != nil {
		panic("schema: " + err.Error()) // it is embedded
	}
	for _, e := range entries {
		out[strings.TrimSuffix(e.Name(), ".json")] = read(path.Join("base", e.Name()))
	}
	return out
}

// read reads an embedded file; a bad one never leaves the build, since every test reads it.
func read(name string) config.Object { return readFrom(files, name) }

func readFrom(files embed.FS, name string) config.Object {
	text, err := files.ReadFile(name)
	if err != nil {
		panic("schema: " + err.Error())
	}
	o, faults := config.ParseObject(text)
	if faults != nil {
		panic("schema: " + name + ": " + faults.Error())
	}
	return o
}
