package confdir

import "edgespan/config"

const (
	backupSuffix = ".bak"
	newFileMode  = 0o600 // overrides contain secrets
)

// WriteObject replaces a file by the canonical form of a document and a final newline. It keeps the previous content
// with the suffix ".bak". A power failure or an error leaves the complete old or new content. If the file already has
// this content, neither it nor its backup is changed. Mode, owner and group are kept, and the backup has the same; a
// new file is readable only by its owner. A symbolic link is followed; if it points to nothing, that is an error.
func WriteObject(file string, o config.Object) error {
	return WriteAll([]File{{file, o}})
}

// WriteNodes replaces an auto or node file like WriteObject.
func WriteNodes(file string, nodes map[string]config.Object) error {
	o := make(config.Object, len(nodes))
	for name, layer := range nodes {
		o[name] = layer
	}
	return WriteObject(file, o)
}
