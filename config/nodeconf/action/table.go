package action

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/layers/metadata"
)

// File is the path of a node's table.
const File = "/etc/edgespan/actions.yaml"

// Limits of one step. A step without its own timeout gets the default.
const (
	DefaultTimeout = 30 * time.Second
	maxTimeout     = 10 * time.Minute
	maxWords       = 64
	maxWord        = 4096 // bytes
)

// ownUnit is the agent's own unit, which only RESTART_MINION may restart.
const ownUnit = "edgespan.service"

var (
	unitName     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9:_.@\\-]*$`)
	unitSuffixes = []string{".service", ".socket", ".timer", ".path", ".target"}
)

const (
	wholeEntry = "must be a mapping: {unit: NAME, do: restart|reload} or {command: [/path, word, …], timeout: 30s}"
	oneOfBoth  = "must be either a unit or a command"
)

// Parse parses a table:
//
//	RESTART_KEA:   {unit: kea-dhcp6, do: restart}
//	RESTART_SNMP:  {command: [/usr/local/sbin/snmp, reload], timeout: 10s}
//
// A file that has only comments is an empty table. Parse returns all faults; if there are any, it returns no table.
func Parse(text []byte) (ActionTable, config.Faults) {
	return parse(text, parser{names: metadata.ActionNames(),
		own: func(name string) bool { _, built := builtins[name]; return built }})
}

// ofController are the actions of a controller's config that a table may map; ownController are those that the
// controller executes itself.
var (
	ofController  = []string{"UPDATE_SCAN_CONFIG", "UPDATE_PREFIX_ALLOC_PARAMS", "RESTART_STATS_AGENT"}
	ownController = []string{NameReboot, "UPDATE_GLOG_LEVEL", "UPDATE_GFLAG", "UPDATE_CHANNEL_ASSIGNMENT"}
)

// ParseController parses the table of a controller, for the actions of its own config that it does not execute itself.
// The form is that of Parse.
func ParseController(text []byte) (ActionTable, config.Faults) {
	return parse(text, parser{names: ofController,
		own: func(name string) bool { return slices.Contains(ownController, name) }})
}

func parse(text []byte, p parser) (ActionTable, config.Faults) {
	if isBlank(text) {
		return ActionTable{}, nil
	}
	o, faults := config.ReadObjectWithLists(text)
	if faults != nil {
		return nil, faults
	}
	t := ActionTable{}
	for _, name := range config.Keys(o) {
		if p.checkName(name) {
			t[name] = p.parseEntry(name, o[name])
		}
	}
	if len(p.faults) > 0 {
		p.faults.Sort()
		return nil, p.faults
	}
	return t, nil
}

// isBlank reports whether a text has only empty lines and comments.
func isBlank(text []byte) bool {
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\ufeff"))) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

type parser struct {
	names  []string               // all known names
	own    func(name string) bool // reports whether the program executes the action itself
	faults config.Faults
}

func (p *parser) checkName(name string) bool {
	switch {
	case p.own(name):
		p.faults.Add([]string{name}, "reserved action", "edgespan does it itself")
	case !slices.Contains(p.names, name):
		mappable := slices.DeleteFunc(slices.Clone(p.names), p.own)
		slices.Sort(mappable)
		p.faults.Add([]string{name}, "unknown action", config.OneOf(mappable))
	default:
		return true
	}
	return false
}

func (p *parser) parseEntry(name string, v any) Do {
	o, ok := v.(config.Object)
	if !ok {
		p.faults.Add([]string{name}, config.InvalidType(config.YAMLTypeName(v)), wholeEntry)
		return Do{}
	}
	d := Do{Timeout: DefaultTimeout}
	_, unit := o["unit"]
	_, command := o["command"]
	if unit == command {
		what := "has neither a unit nor a command"
		if unit {
			what = "has a unit and a command"
		}
		p.faults.Add([]string{name}, what, oneOfBoth)
	}
	d.Kind = Command
	if unit {
		d.Kind, d.Verb = Unit, "restart"
	}
	for _, key := range config.Keys(o) {
		at := []string{name, key}
		switch key {
		case "unit":
			d.Unit = p.parseUnit(at, o[key])
		case "do":
			d.Verb = p.parseVerb(at, o[key], unit)
		case "command":
			d.Argv = p.parseArgv(at, o[key])
		case "timeout":
			d.Timeout = p.parseTimeout(at, o[key])
		default:
			p.faults.Add(at, config.UnknownField, "must be unit and do, or command, and timeout")
		}
	}
	return d
}

func (p *parser) parseUnit(at []string, v any) string {
	s, ok := v.(string)
	if !ok {
		p.faults.Add(at, config.InvalidType(config.YAMLTypeName(v)), "must be the name of a systemd unit")
		return ""
	}
	if !slices.Contains(unitSuffixes, path.Ext(s)) {
		s += ".service"
	}
	switch {
	case !unitName.MatchString(s) || len(s) > 255:
		p.faults.Add(at, config.Invalid(s), "must be the name of a systemd unit: letters, digits and :_.@\\-")
	case s == ownUnit:
		p.faults.Add(at, config.Invalid(s)+", the agent itself", NameRestart+" restarts it")
	}
	return s
}

func (p *parser) parseVerb(at []string, v any, unit bool) string {
	s, ok := v.(string)
	switch {
	case !unit:
		p.faults.Add(at, "invalid without a unit", "only a unit has it")
	case !ok:
		p.faults.Add(at, config.InvalidType(config.YAMLTypeName(v)), "must be restart or reload")
	case s != "restart" && s != "reload":
		p.faults.Add(at, config.Invalid(s), "must be restart or reload")
	}
	return s
}

func (p *parser) parseArgv(at []string, v any) []string {
	list, ok := v.([]any)
	if !ok {
		p.faults.Add(at, config.InvalidType(config.YAMLTypeName(v)),
			"must be a list of words, the first an absolute path: no shell reads it")
		return nil
	}
	if len(list) == 0 || len(list) > maxWords {
		p.faults.Add(at, "invalid number of words "+strconv.Itoa(len(list)), config.MustBe("1 to "+strconv.Itoa(maxWords)))
	}
	var out []string
	for i, word := range list {
		where := config.Below(at, strconv.Itoa(i))
		s, ok := word.(string)
		switch {
		case !ok:
			p.faults.Add(where, config.InvalidType(config.YAMLTypeName(word)), `must be a string: put it in ""`)
		case strings.ContainsRune(s, 0):
			p.faults.Add(where, "zero byte in the text", "must be without zero bytes")
		case len(s) > maxWord:
			p.faults.Add(where, config.TooLong(len(s), "bytes"), config.AtMost(maxWord))
		case i == 0 && (!path.IsAbs(s) || path.Clean(s) != s || s == "/"):
			p.faults.Add(where, config.Invalid(s), "must be an absolute path without . and ..")
		}
		out = append(out, s)
	}
	return out
}

func (p *parser) parseTimeout(at []string, v any) time.Duration {
	const allowed = "must be a duration from 1ms to 10m, such as 30s"
	s, ok := v.(string)
	if !ok {
		p.faults.Add(at, config.InvalidType(config.YAMLTypeName(v)), allowed)
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond || d > maxTimeout {
		p.faults.Add(at, config.Invalid(s), allowed)
	}
	return d
}
