package serve

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"edgespan/config"
)

// fileFlags are the flags of a controller's config in normal form, by name with '_'.
func fileFlags(doc config.Object) config.Object {
	out := config.Object{}
	flags, _ := doc["flags"].(config.Object)
	for name, v := range flags {
		if s, ok := v.(string); ok {
			out[name] = s
		}
	}
	return out
}

// fromStore are the flags that the stored config of the controller may set. Write access to the
// store must not make anybody administrator of the machine: flags that decide on access, CA,
// files, addresses or the store itself never belong here, and a new flag is left out by default.
var fromStore = []string{
	"config-actions-req-timeout-s", "config-batch-timeout-s", "config-confirm-timeout-s", "config-rollout-batch-limit",
	"config-rollout-canary",
	"config-rollout-failures", "config-rollout-failures-percent", "config-rollout-offline-percent",
	"config-rollout-rest-s", "config-rollout-stages", "config-staged-rollout-enabled", "consecutive-reconfig-delay-s",
	"facts-memory-mb", "facts-node-versions", "facts-nodes-mb", "facts-versions", "firmware-parameter-update-delay",
	"joins-per-second", "status-reports-interval",
	"topology-info-sync-interval", "unknown-hw-config-req-delay-s", "unknown-hw-queries-enabled", "v",
}

// isStored says whether a flag, by its name in either form, may come from the stored config.
func isStored(name string) bool { return slices.Contains(fromStore, dashes(name)) }

// leftOut is a flag of the stored config that does not count, and why.
type leftOut struct {
	name string // with '_'
	why  string
}

// fromConfig takes the flags of the stored config for what neither the command line nor the
// environment said. What can't be taken is left out and told: nothing that is stored keeps a
// controller, or a command beside it, from starting.
func (o *Options) fromConfig(doc config.Object) []leftOut {
	o.base = o.clone()
	var out []leftOut
	flags := fileFlags(doc)
	for _, name := range config.Keys(flags) {
		s, known := o.find(name)
		if !known || o.given[s.name] {
			continue
		}
		was := s.value.String()
		if !isStored(name) {
			if flags[name] != was {
				out = append(out, leftOut{name, instead(s.name)})
			}
			continue
		}
		err := replace(s.value, flags[name].(string))
		if err == nil {
			err = o.check()
		}
		if err != nil {
			_ = replace(s.value, was) // it was spelled by the same type
			out = append(out, leftOut{name, err.Error()})
		}
	}
	return out
}

// What is said of a flag that the stored config may not set, and where it counts.
const neverStored = "cannot be set in the stored config"

func setBy(name string) string { return "must be set by --" + name + " or " + envName(name) }

func instead(name string) string { return neverStored + ": " + setBy(name) }

// envName is the variable of the environment that has a flag.
func envName(flag string) string {
	return "EDGESPAN_CONTROLLER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// logLeftOut logs what was left out.
func logLeftOut(log *zap.Logger, left []leftOut) {
	for _, l := range left {
		log.Warn("ignoring a flag of the controller's config", zap.String("flag", l.name), zap.String("why", l.why))
	}
}

// validateChange is ops.World.Own: what of a change of the stored config can never work here. What
// stands there already is left alone, so that other changes of it pass.
func (o *Options) validateChange(before, after config.Object, asked bool) (faults config.Faults, notes []string) {
	base := o
	if o.base != nil {
		base = o.base
	}
	was, now := fileFlags(before), fileFlags(after)
	for _, name := range config.Keys(now) {
		s, known := base.find(name)
		if old, had := was[name]; !known || had && old == now[name] {
			continue
		}
		switch d, _ := NewOptions().find(name); {
		case isStored(name):
			if err := base.trial(s.name, now[name].(string)); err != nil {
				faults.Add([]string{"flags", name}, err.Error(), "")
			}
		case now[name] == d.value.String(): // a whole file with all its defaults
		case asked:
			faults.Add([]string{"flags", name}, neverStored, setBy(s.name))
		default:
			notes = append(notes, fmt.Sprintf("flags.%s: %s", name, instead(s.name)))
		}
	}
	return faults, notes
}

// trial says why a flag can't have a value beside all others, nil where it can.
func (o *Options) trial(name, text string) error {
	next := o.clone()
	s, _ := next.find(name)
	if err := replace(s.value, text); err != nil {
		return err
	}
	return next.check()
}
