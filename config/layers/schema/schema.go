package schema

import (
	"embed"
	"path"
	"strings"

	"edgespan/config"
)

//go:embed node_metadata.json base
var files embed.FS

// BaseVersion is the version of the newest base layer, and the name of its file.
const BaseVersion = "EDGESPAN_0_1"

var nodeMetadata, nodeBases = read("node_metadata.json"), bases()

// NodeMetadata returns the metadata of a node's configuration. In addition to the seed's properties, entries have
// edgespan's own (docs/adding-configuration.md): strict, default, optional, requiredWhen, unsupported, the words that a
// string must be, and the words of a map's keys.
func NodeMetadata() config.Object { return nodeMetadata }

// NodeBase returns the base layer of this program's version: the defaults of all fields that are not below free keys.
func NodeBase() config.Object { return nodeBases[BaseVersion] }

// NodeBases returns the base layers of all versions by file name.
func NodeBases() map[string]config.Object { return nodeBases }

func bases() map[string]config.Object {
	out := map[string]config.Object{}
	entries, err := files.ReadDir("base")
	if err != nil {
		panic("schema: " + err.Error()) // impossible: the folder is embedded
	}
	for _, e := range entries {
		out[strings.TrimSuffix(e.Name(), ".json")] = read(path.Join("base", e.Name()))
	}
	return out
}

// read parses an embedded file. Every test reads the files, so a damaged one fails the build's tests.
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
