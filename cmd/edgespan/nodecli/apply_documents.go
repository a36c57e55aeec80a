package nodecli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/fleetcli"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/rest"
)

// piece is one document of a file.
type piece struct {
	number, line int // starting at 1
	text         []byte
	object       config.Object
	faults       config.Faults
}

// hasKind reports whether the document has a kind. Such a document goes to the controller, even if it can't be parsed.
func (p piece) hasKind() bool {
	_, has := p.object["kind"]
	return has || p.object == nil && kindLine.Match(p.text)
}

var kindLine = regexp.MustCompile(`(?m)^\s*\{?\s*"?kind"?\s*:`)

// name returns the name of the document for messages.
func (p piece) name() string {
	text := fmt.Sprintf("document %d (line %d)", p.number, p.line)
	kind, _ := p.object["kind"].(string)
	if at, _ := config.Lookup(p.object, []string{"metadata", "name"}); kind != "" && at != nil {
		text += fmt.Sprintf(", %s %v", kind, at)
	}
	return text
}

// separator matches a line that ends a YAML document (YAML 1.2 §9.1.2). No such line can occur inside a document.
var separator = regexp.MustCompile(`(?m)^(---|\.\.\.)([ \t].*)?\r?$`)

// splitDocuments splits a file into YAML documents, or into consecutive JSON objects. It leaves out empty documents.
func splitDocuments(text []byte) []piece {
	if all := jsonPieces(text); all != nil {
		return all
	}
	var out []piece
	from := 0
	add := func(to int) {
		part := text[from:to]
		p := piece{number: len(out) + 1, line: 1 + bytes.Count(text[:from], []byte("\n")), text: part}
		if len(bytes.TrimSpace(commentLine.ReplaceAll(part, nil))) == 0 {
			return
		}
		p.line += bytes.Count(part[:len(part)-len(bytes.TrimLeft(part, "\r\n"))], []byte("\n"))
		p.object, p.faults = config.ReadObjectWithLists(part)
		out = append(out, p)
	}
	for _, at := range separator.FindAllIndex(text, -1) {
		add(at[0])
		from = at[0] + 3 // a document may begin on the line of its separator
	}
	add(len(text))
	return out
}

var commentLine = regexp.MustCompile(`(?m)^[ \t]*#.*$`)

// jsonPieces returns the objects of a JSON file, or nil if the file is not JSON.
func jsonPieces(text []byte) []piece {
	var out []piece
	dec := json.NewDecoder(bytes.NewReader(text))
	for dec.More() {
		var raw json.RawMessage
		if dec.Decode(&raw) != nil || raw[0] != '{' {
			return nil
		}
		begins := int(dec.InputOffset()) - len(raw)
		p := piece{number: len(out) + 1, line: 1 + bytes.Count(text[:begins], []byte("\n")), text: raw}
		p.object, p.faults = config.ParseObject(raw)
		out = append(out, p)
	}
	return out
}

// hasNoKind reports whether a file is certainly the config of a node: JSON objects without a kind, or YAML without a
// top-level key kind. It does not parse the file; the node does.
func hasNoKind(text []byte) bool {
	if start := bytes.TrimLeft(text, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		for dec := json.NewDecoder(bytes.NewReader(text)); dec.More(); {
			var keys map[string]json.RawMessage
			if dec.Decode(&keys) != nil || keys["kind"] != nil {
				return false
			}
		}
		return true
	}
	begun := false
	for line := range bytes.Lines(text) {
		switch line = bytes.TrimRight(line, " \t\r\n"); {
		case len(line) == 0 || line[0] == '#' || bytes.Equal(line, []byte("...")):
		case bytes.Equal(line, []byte("---")):
			begun = false
		case begun && (line[0] == ' ' || line[0] == '\t'):
		case !plainKey.Match(line) || kindLine.Match(line):
			return false
		default:
			begun = true
		}
	}
	return true
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_$.-]+:( |$)`)

// descriptors returns the documents of a file that go to the controller, or none for a node's config. It refuses a
// file that contains both.
func descriptors(file string, text []byte) ([]config.Object, error) {
	if hasNoKind(text) {
		return nil, nil
	}
	all := splitDocuments(text)
	if !slices.ContainsFunc(all, piece.hasKind) {
		return nil, nil
	}
	var faults []string
	var docs []config.Object
	for _, p := range all {
		for _, f := range p.faults {
			faults = append(faults, fmt.Sprintf("%s: %s: %s", file, p.name(), f))
		}
		if len(p.faults) == 0 && !p.hasKind() {
			faults = append(faults,
				fmt.Sprintf("%s: %s: no kind, as in the config of a node, next to %s: must be either descriptors for the "+
					"controller, or the config of one node",
					file, p.name(), strings.Join(pieceNames(all), "; ")))
		}
		docs = append(docs, p.object)
	}
	if faults != nil {
		return nil, &rest.Rejected{Faults: faults}
	}
	return docs, nil
}

func pieceNames(all []piece) []string {
	var out []string
	for _, p := range all {
		if p.hasKind() {
			out = append(out, p.name())
		}
	}
	return out
}

// nodeFlags apply to a node's config, controllerFlags to descriptors.
var (
	nodeFlags       = []string{"local", "confirm", "socket", "run-dir"}
	controllerFlags = append([]string{"message"}, reach.FlagNames...)
)

// applied reads the file of apply and returns its text and, unless it is a node's config, its descriptors.
func (a commands) applied(cmd *cobra.Command, file string) ([]byte, []config.Object, error) {
	text, err := a.document(file)
	if err != nil {
		return nil, nil, err
	}
	docs, err := descriptors(file, text)
	if err != nil {
		return nil, nil, err
	}
	return text, docs, flagsFor(cmd, file, docs)
}

// flagsFor refuses flags of the other kind of file.
func flagsFor(cmd *cobra.Command, file string, docs []config.Object) error {
	wrong, problem := controllerFlags, "is the config of this node: the flag applies to documents that have a kind"
	if docs != nil {
		wrong, problem = nodeFlags, "contains documents for the controller: the flag applies to the config of this node"
	}
	var faults []error
	for _, name := range wrong {
		if cmd.Flags().Changed(name) {
			faults = append(faults, term.Usagef("--%s: %s %s", name, file, problem))
		}
	}
	return errors.Join(faults...)
}

// applyDocuments writes all descriptors of a file as one revision.
func (a commands) applyDocuments(cmd *cobra.Command, docs []config.Object, message, output string, dry bool) error {
	if err := term.CheckOutput(output); err != nil {
		return err
	}
	return fleetcli.WriteDescriptors(a.App, cmd, docs, message, output, dry)
}
