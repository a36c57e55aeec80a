package controllerconf

import (
	"regexp"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// flagsKey is the key of the command-line flags in a file.
const flagsKey = "flags"

var flagName = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// Flag is one command-line flag.
type Flag struct{ Name, Value string }

// Normalize converts the flags of a file to their normal form: the name after its last '.', the value as a string, and
// the flags object present even if empty. In the original, the last of two keys for one flag wins silently; here they
// are a fault.
func Normalize(doc config.Object) (config.Object, config.Faults) {
	out := map[string]string{}
	flags, faults := flagsOf(doc)
	for _, f := range flags {
		out[f.Name] = f.Value
	}
	if faults != nil {
		return nil, faults
	}
	o := make(config.Object, len(out))
	for name, value := range out {
		o[name] = value
	}
	return config.Set(doc, []string{flagsKey}, o), nil
}

// Flags returns the flags of a file, sorted by name.
func Flags(doc config.Object) ([]Flag, config.Faults) {
	flags, faults := flagsOf(doc)
	if faults != nil {
		return nil, faults
	}
	slices.SortFunc(flags, func(a, b Flag) int { return strings.Compare(a.Name, b.Name) })
	return flags, nil
}

func flagsOf(doc config.Object) (flags []Flag, faults config.Faults) {
	v, has := doc[flagsKey]
	if !has {
		return nil, nil
	}
	o, ok := v.(config.Object)
	if !ok {
		faults.Add([]string{flagsKey}, config.InvalidType(config.KindOf(v)), "must be an object of flags")
		return nil, faults
	}
	from := map[string]string{}
	for _, key := range config.Keys(o) {
		path := []string{flagsKey, key}
		name := key[strings.LastIndexByte(key, '.')+1:]
		if !flagName.MatchString(name) {
			faults.Add(path, "invalid name of a flag", "must be letters, digits and _ after a prefix that ends in a '.'")
			continue
		}
		if other, taken := from[name]; taken {
			faults.Add(path, "duplicate flag "+name+", also at "+config.FormatPath([]string{flagsKey, other}),
				"must be unique")
			continue
		}
		from[name] = key
		value, ok := flagValue(o[key])
		if !ok {
			faults.Add(path, config.InvalidType(config.KindOf(o[key])),
				"must be a string; a number or a boolean becomes one")
			continue
		}
		flags = append(flags, Flag{name, value})
	}
	faults.Sort()
	return flags, faults
}

// flagValue returns a flag's value as a string: its canonical form.
func flagValue(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool, int64, float64:
		return string(config.AppendCanonical(nil, v)), true
	}
	return "", false
}

// Check normalizes a file and validates it against its metadata. It returns the file in normal form, the keys without
// metadata (no fault: they are kept, and shared) and all faults. A flag described as BOOLEAN, INTEGER or FLOAT must
// have a string with such a value; in the original such a flag could not be set at all.
func Check(m *metadata.Metadata, doc config.Object) (normal config.Object, unknown [][]string, faults config.Faults) {
	normal, faults = Normalize(doc)
	if faults != nil {
		// Check the rest of the file too, to report all faults at once.
		rest := m.Validate(config.Unset(doc, []string{flagsKey}))
		faults = append(faults, rest.Err()...)
		faults.Sort()
		return nil, nil, faults
	}
	report := m.Validate(normal)
	if faults = report.Err(); faults != nil {
		return nil, nil, faults
	}
	return normal, report.Unknown, nil
}

// Change lists the consequences of a change of a file.
type Change struct {
	Actions []metadata.Action // in execution order
	Flags   []FlagChange      // of the actions UPDATE_GFLAG and UPDATE_GLOG_LEVEL, by name
	// NextStart lists the changed keys without an action: they take effect when the process starts next.
	NextStart [][]string
}

// FlagChange is one flag that changes in the running process.
type FlagChange struct {
	Flag
	Default bool // the flag was removed: its default applies again, and Value is ""
}

// flagActions are the actions that change a flag of the running process.
var flagActions = []string{"UPDATE_GFLAG", "UPDATE_GLOG_LEVEL"}

// Changes returns the consequences of a change between two files in normal form.
func Changes(m *metadata.Metadata, before, after config.Object) Change {
	diff := config.FullDiff(before, after)
	out := Change{Actions: m.Actions(diff)}
	taken := map[string]bool{} // keys that have an action
	for _, a := range out.Actions {
		for _, key := range a.Keys {
			taken[config.FormatPath(key)] = true
			if !slices.Contains(flagActions, a.Name) || len(key) != 2 || key[0] != flagsKey {
				continue
			}
			c := FlagChange{Flag: Flag{Name: key[1]}}
			v, has := config.Lookup(after, key)
			if c.Default = !has; has {
				c.Value, _ = flagValue(v)
			}
			out.Flags = append(out.Flags, c)
		}
	}
	slices.SortFunc(out.Flags, func(a, b FlagChange) int { return strings.Compare(a.Name, b.Name) })
	out.NextStart = leavesWithout(diff, nil, taken)
	return out
}

// leavesWithout returns the leaves of a difference that are not in taken, nor below a path in it.
func leavesWithout(v any, path []string, taken map[string]bool) [][]string {
	if len(path) > 0 && taken[config.FormatPath(path)] {
		return nil
	}
	o, ok := v.(config.Object)
	if !ok || len(o) == 0 {
		if len(path) == 0 {
			return nil
		}
		return [][]string{path}
	}
	var out [][]string
	for _, key := range config.Keys(o) {
		out = append(out, leavesWithout(o[key], config.Below(path, key), taken)...)
	}
	return out
}

// PrintFlags formats flags as one line, --name=value, sorted by name and quoted for a shell if needed; "" without
// flags. A value with a newline or a NUL is a fault: it does not fit on one line.
func PrintFlags(flags []Flag) (string, config.Faults) {
	var faults config.Faults
	words := make([]string, len(flags))
	for i, f := range flags {
		if strings.ContainsAny(f.Value, "\x00\n") {
			faults.Add([]string{flagsKey, f.Name}, "line end or NUL in the value", "must be a single line")
		}
		words[i] = "--" + f.Name + "=" + quote(f.Value)
	}
	if faults != nil {
		return "", faults
	}
	return strings.Join(words, " "), nil
}

// plain matches values that need no quotes in a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]*$`)

// quote quotes a value for sh: in single quotes, only a single quote is special.
func quote(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
