package controllerconf

import (
	"regexp"
	"slices"
	"strings"

	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// flagsKey is where a file has its command-line flags.
const flagsKey = "flags"

var flagName = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// Flag is one command-line flag.
type Flag struct{ Name, Value string }

// Normalize brings the flags of a file into their one form: the name without what stands
// before its last '.', the value as the string that it says, flags there even if empty.
// In the original the last of two keys for one flag wins unseen; here they are a fault.
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

// Flags are those of a file, in the order of their names.
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
	o, is := v.(config.Object)
	if !is {
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
		value, is := flagValue(o[key])
		if !is {
			faults.Add(path, config.InvalidType(config.KindOf(o[key])),
				"must be a string; a number or a boolean becomes one")
			continue
		}
		flags = append(flags, Flag{name, value})
	}
	faults.Sort()
	return flags, faults
}

// flagValue is the string that a value says: its canonical form.
func flagValue(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool, int64, float64:
		return string(config.AppendCanonical(nil, v)), true
	}
	return "", false
}

// Check normalizes a file and checks it against its metadata. It answers with the file in
// its normal form, the keys that nobody described (no fault: they are kept, and shared) and
// everything that is wrong. A flag described as BOOLEAN, INTEGER or FLOAT is one that its
// string must say; in the original such a flag could not be set at all.
func Check(m *metadata.Metadata, doc config.Object) (normal config.Object, unknown [][]string, faults config.Faults) {
	normal, faults = Normalize(doc)
	if faults != nil {
		// The rest of the file is checked all the same: all faults at once.
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

// Change is what a change of a file leads to.
type Change struct {
	Actions []metadata.Action // in the order of execution
	Flags   []FlagChange      // of the actions UPDATE_GFLAG and UPDATE_GLOG_LEVEL, by name
	// NextStart are the changed keys that no action takes up: they count from the next
	// start of the process on.
	NextStart [][]string
}

// FlagChange is one flag that the process changes while it runs.
type FlagChange struct {
	Flag
	Default bool // it was taken out: its default counts again, and Value is ""
}

// flagActions are the actions that change a flag of the running process.
var flagActions = []string{"UPDATE_GFLAG", "UPDATE_GLOG_LEVEL"}

// Changes are the consequences of a change between two files in normal form.
func Changes(m *metadata.Metadata, before, after config.Object) Change {
	diff := config.FullDiff(before, after)
	out := Change{Actions: m.Actions(diff)}
	taken := map[string]bool{} // keys of actions
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

// leavesWithout are the leaves of a difference that neither they nor anything on the way
// to them is taken.
func leavesWithout(v any, path []string, taken map[string]bool) [][]string {
	if len(path) > 0 && taken[config.FormatPath(path)] {
		return nil
	}
	o, is := v.(config.Object)
	if !is || len(o) == 0 {
		if len(path) == 0 {
			return nil
		}
		return [][]string{path}
	}
	var out [][]string
	for _, key := range config.Keys(o) {
		out = append(out, leavesWithout(o[key], config.Sub(path, key), taken)...)
	}
	return out
}

// PrintFlags is a line of command-line flags, --name=value, in the order of their names,
// each quoted for a shell where it has to be; "" without flags. A value of several lines,
// or with a NUL in it, is a fault: one line can't say it.
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

// plain are values that no shell takes for anything else.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]*$`)

// quote is a value for sh: in single quotes, inside of which only they mean something.
func quote(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
