package confdir

import "edgespan/config"

const (
	backupSuffix = ".bak"
	newFileMode  = 0o600 // overrides hold secrets
)

// WriteObject replaces a file by the canonical form of a document and a final newline. The
// content before it is kept beside it, with ".bak" behind its name. A power cut or an error
// leaves the old or the new content whole. A file that says the same already is left alone,
// and so is its backup. Mode, owner and group stay as they are, and are the backup's too; a
// new file is for its owner alone. What a symbolic link points to is written, not the link;
// one that points to nothing is an error.
func WriteObject(file string, o config.Object) error {
	return WriteAll([]File{{file, o}})
}

// WriteNodes replaces an auto or node file as WriteObject does.
func WriteNodes(file string, nodes map[string]config.Object) error {
	o := make(config.Object, len(nodes))
	for name, layer := range nodes {
		o[name] = layer
	}
	return WriteObject(file, o)
}
