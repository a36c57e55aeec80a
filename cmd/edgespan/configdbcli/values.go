package configdbcli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"edgespan/cmd/term"
	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
)

// valueSpecs are the commands for values and overrides.
var valueSpecs = []factsSpec{
	{
		use:   "get --env ID [--level nodes=NODE] --resource NAME [--key KEY]",
		short: "Print the effective values of a resource, or one of its keys",
		long: `Print the effective values of a resource, or one of them with --key. They are merged from the values and
overrides of the environment, then from those of each level; the last one wins. --format plain prints a
string as it is, json and yaml print {KEY: value}. A missing key ends the command with exit code 10.`,
		example: `  edgespan config get --env 1 --level node=node-1.domain.tld --resource astute
  edgespan config get --env 1 --level node=node-1.domain.tld --resource astute --key deployment_id --format plain`,
		needs: []string{"env", "resource"}, forms: valueForms, run: getFacts,
		flags: []factsFlags{placeFlags, keyFlag, func(f *pflag.FlagSet, c *factsCall) {
			f.BoolVarP(&c.lookup, "show-lookup", "s", false, "show each top-level value with its level: [value, level]")
			f.Uint64Var(&c.version, "version", 0, "show the values as of this version of the level")
			f.Uint64Var(&c.revision, "revision", 0, "show the values as of this revision of the facts")
			f.BoolVar(&c.values, "values", false, "show only the values set at this level, not the effective ones")
			f.BoolVar(&c.overrides, "overrides", false, "show only the overrides set at this level, not the effective values")
			f.BoolVar(&c.etag, "etag", false, "print only the ETag, for --if-match; with --values or --overrides")
		}},
	},
	{
		use:   "set --env ID [--level nodes=NODE] --resource NAME [--key KEY] [--value VALUE]",
		short: "Set the values of a resource, all of them or one",
		long:  "Set the values of a resource: all of them, or with --key one." + aboutWritten,
		example: `  edgespan config set --env 1 --level node=1 --resource astute --format yaml < astute.yaml
  edgespan config set --env 1 --resource astute --key debug --type bool --value true`,
		needs: []string{"env", "resource"}, forms: inputForms, input: true,
		run:   func(c *factsCall) error { return setFacts(c, model.Values) },
		flags: []factsFlags{placeFlags, keyFlag, valueFlags, boundFlags},
	},
	{
		use:   "override --env ID [--level nodes=NODE] --resource NAME [--key KEY] [--value VALUE]",
		short: "Override values of a resource; uploaded values stay unchanged",
		long: "Override values of a resource: all of its overrides are replaced, or with --key one. They stay when values " +
			"are uploaded anew." + aboutWritten,
		example: `  edgespan config override --env 1 --level node=node-1.domain.tld --resource astute --key ` +
			`deployment_id --value 2
  edgespan config override --env 1 --resource astute --key proxy --type null`,
		needs: []string{"env", "resource"}, forms: inputForms, input: true,
		run:   func(c *factsCall) error { return setFacts(c, model.Overrides) },
		flags: []factsFlags{placeFlags, keyFlag, valueFlags, boundFlags},
	},
	{
		use:     "del --env ID [--level nodes=NODE] --resource NAME --key KEY",
		short:   "Delete one of the values of a resource, or with --all all of them",
		example: "  edgespan config del --env 1 --level nodes=1 --resource astute --key deployment_id",
		needs:   []string{"env", "resource"}, run: func(c *factsCall) error { return deleteFacts(c, model.Values) },
		flags: []factsFlags{placeFlags, keyFlag, allFlag, boundFlags},
	},
	{use: "rm", short: "Delete overrides", sub: []factsSpec{{
		use:     "override --env ID [--level nodes=NODE] --resource NAME --key KEY",
		short:   "Delete one of the overrides of a resource, or with --all all of them",
		example: "  edgespan config rm override --env 1 --level nodes=1 --resource astute --key deployment_id",
		needs:   []string{"env", "resource"}, run: func(c *factsCall) error { return deleteFacts(c, model.Overrides) },
		flags: []factsFlags{placeFlags, keyFlag, allFlag, boundFlags},
	}}},
}

const aboutWritten = ` The new value is --value,
read according to --type, or without it as a YAML scalar (2 is a number, true a boolean, "2" in quotes a
string); --type null needs no value. Without --value, stdin is read: JSON, or the form of --format or --type.`

func allFlag(f *pflag.FlagSet, c *factsCall) {
	f.BoolVar(&c.all, "all", false, "delete all of them instead of one --key; the versions stay in the history")
}

// nameOf returns the original's word for a half of a record in messages.
func nameOf(k model.Kind) string {
	if k == model.Overrides {
		return "ResourceOverride"
	}
	return "ResourceValue"
}

func getFacts(c *factsCall) error {
	exact := c.values || c.overrides
	switch {
	case c.values && c.overrides:
		return term.Exclusive("--values", "--overrides")
	case c.lookup && exact:
		return term.Exclusive("--show-lookup", "--values or --overrides")
	case c.etag && !exact:
		return term.Requires("--etag", "--values or --overrides")
	case c.version > 0 && c.revision > 0:
		return term.Exclusive("--version", "--revision")
	}
	var path []string
	var err error
	if c.changed("key") {
		if path, err = c.path(); err != nil {
			return err
		}
	}
	p, err := c.place()
	if err != nil {
		return err
	}
	got, err := c.client.Read(c.ctx, p, c.kind(),
		configdbapi.Read{Effective: !exact, Lookup: c.lookup, Version: c.version, Revision: c.revision})
	switch {
	case err != nil:
		return err
	case c.etag:
		_, err := fmt.Fprintln(c.a.Out, got.ETag)
		return err
	case path == nil:
		return c.print(got.Body)
	}
	v, err := valueAt(got.Body, path, c.lookup)
	switch {
	case err != nil:
		return err
	case c.format == "plain" || c.format == "value":
		return c.print(v)
	}
	return c.print(configdb.NewObject([]configdb.Member{{Key: c.key, Value: v}}).JSON())
}

// valueAt returns the value at a path of a complete answer. The command requests the complete document, so that it
// finds a key that contains a dot and can tell a missing key from other conflicts. A lookup returns the value with the
// level of its top-level key.
func valueAt(doc configdb.JSON, path []string, lookup bool) (configdb.JSON, error) {
	if !lookup {
		return found(doc, path, path)
	}
	pair, err := found(doc, path[:1], path)
	if err != nil {
		return nil, err
	}
	both := pair.Elements() // a value and its level
	v, err := found(both[0], path[1:], path)
	if err != nil {
		return nil, err
	}
	return configdb.JSON("[" + v.String() + "," + both[1].String() + "]"), nil
}

// found returns the value at a path; messages name whole.
func found(doc configdb.JSON, path, whole []string) (configdb.JSON, error) {
	if len(path) == 0 {
		return doc, nil
	}
	v, err := configdb.At(doc, path)
	if err != nil {
		return nil, notFoundError("key %s: %s", strings.Join(whole, "."), err)
	}
	return v, nil
}

// print prints a value in the format of --format.
func (c *factsCall) print(v configdb.JSON) error {
	var out []byte
	v, err := columnsOf(v, c.columns)
	if err != nil {
		return err
	}
	switch c.format {
	case "value":
		out = valuesOf(v, c.columns)
	case "plain":
		text, ok := v.Text()
		if !ok && v.String() != "null" {
			text = v.String()
		}
		out = []byte(text + "\n")
	case "yaml":
		out = configdb.ToYAML(v)
	default:
		var b bytes.Buffer
		if err := json.Indent(&b, v, "", "  "); err != nil {
			return fmt.Errorf("print answer: %w", err)
		}
		out = append(term.EscapeJSON(b.Bytes()), '\n')
	}
	_, err = c.a.Out.Write(out)
	return err
}

// setFacts replaces a half of a record, or sets one of its keys.
func setFacts(c *factsCall, k model.Kind) error {
	var path []string
	var err error
	if c.changed("key") {
		if path, err = c.path(); err != nil {
			return err
		}
	}
	value, err := c.written()
	if err != nil {
		return err
	}
	p, err := c.place()
	if err != nil {
		return err
	}
	if path == nil {
		stored, err := c.client.Put(c.ctx, p, k, value, c.writeOptions())
		return c.did(stored, err, "%s was set", nameOf(k))
	}
	stored, err := c.client.EditKeys(c.ctx, p, k, configdb.KeysEdit{Op: configdb.KeysSet,
		Items: [][]configdb.JSON{append(quoted(path), value)}}, c.writeOptions())
	return c.did(stored, err, "%s for key %s was set", nameOf(k), c.key)
}

// deleteFacts deletes one key of a half of a record, or the half.
func deleteFacts(c *factsCall, k model.Kind) error {
	if c.all == c.changed("key") {
		return term.Usagef("%s: requires either --key or --all", c.cmd.Name())
	}
	p, err := c.place()
	if c.all && err == nil {
		stored, err := c.client.Remove(c.ctx, p, k, c.writeOptions())
		return c.did(stored, err, "%s was deleted", nameOf(k))
	}
	if err != nil {
		return err
	}
	path, err := c.path()
	if err != nil {
		return err
	}
	stored, err := c.client.EditKeys(c.ctx, p, k,
		configdb.KeysEdit{Op: configdb.KeysDelete, Items: [][]configdb.JSON{quoted(path)}}, c.writeOptions())
	var refused *configdbapi.Error
	if errors.As(err, &refused) && refused.Status == http.StatusConflict {
		// The API reports a missing key as a conflict; the command reports it as not found.
		if doc, fault := c.client.Read(c.ctx, p, k, configdbapi.Read{}); fault == nil {
			if _, missing := configdb.At(doc.Body, path); missing != nil {
				return notFoundError("%s", refused.Msg)
			}
		}
	}
	return c.did(stored, err, "%s for key %s was deleted", nameOf(k), c.key)
}

// quoted converts a path for the API; there, too, indices of lists are digits.
func quoted(path []string) []configdb.JSON {
	out := make([]configdb.JSON, len(path))
	for i, key := range path {
		out[i] = configdb.Quote(key)
	}
	return out
}

// did prints what a write did, or what it would do in a dry run.
func (c *factsCall) did(stored configdbapi.Stored, err error, format string, args ...any) error {
	switch {
	case err != nil:
		return err
	case !c.dryRun:
		_, err = fmt.Fprintln(c.a.Out, term.Printable(fmt.Sprintf(format, args...)))
		return err
	case len(stored.Changes) == 0:
		_, err = fmt.Fprintln(c.a.Out, "no changes")
		return err
	}
	for _, ch := range stored.Changes {
		if _, err := fmt.Fprintln(c.a.Out, term.Printable(c.changeOf(ch)+" would be "+ch.Did)); err != nil {
			return err
		}
	}
	return nil
}

// done prints what a write did that has no dry run.
func (c *factsCall) done(err error, format string, args ...any) error {
	return c.did(configdbapi.Stored{}, err, format, args...)
}

// changeOf names the object of a change, its place, and its environment if that is not the requested one.
func (c *factsCall) changeOf(ch model.Change) string {
	words := []string{ch.What}
	add := func(ok bool, format string, args ...any) {
		if ok {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(ch.Resource != 0, "of")
	add(ch.ID != 0 && ch.Name == "", "%d", ch.ID)
	add(ch.Name != "", "%s", ch.Name)
	at := make([]string, len(ch.Levels))
	for i, l := range ch.Levels {
		at[i] = l.Level + "=" + l.Value
	}
	add(len(at) > 0, "at %s", strings.Join(at, ","))
	add(ch.Environment != 0 && ch.Environment != c.env && ch.What != "environment", "in environment %d", ch.Environment)
	return strings.Join(words, " ")
}
