package serve

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"edgespan/config"
)

// fileFlags returns the flags of a controller's config in normal form, by name with '_'.
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

// fromStore are the flags that the controller's stored config may set. Write access to the store must not make anybody
// an administrator of the machine: a flag that decides on access, the CA, files, addresses or the store itself never
// belongs here, and a new flag is excluded by default.
var fromStore = []string{
	"config-actions-req-timeout-s", "config-batch-timeout-s", "config-confirm-timeout-s", "config-rollout-batch-limit",
	"config-rollout-canary",
	"config-rollout-failures", "config-rollout-failures-percent", "config-rollout-offline-percent",
	"config-rollout-rest-s", "config-rollout-stages", "config-staged-rollout-enabled", "consecutive-reconfig-delay-s",
	"facts-memory-mb", "facts-node-versions", "facts-nodes-mb", "facts-versions", "firmware-parameter-update-delay",
	"joins-per-second", "status-reports-interval",
	"topology-info-sync-interval", "unknown-hw-config-req-delay-s", "unknown-hw-queries-enabled", "v",
}

// isStored reports whether the stored config may set a flag. The name has '-' or '_'.
func isStored(name string) bool { return slices.Contains(fromStore, dashes(name)) }

// leftOut is an ignored flag of the stored config and the reason.
type leftOut struct {
	name string // with '_'
	why  string
}

// fromConfig sets the flags of the stored config that neither the command line nor the environment sets. It returns
// the ignored ones: no stored value can stop a controller or an offline command from starting.
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
			_ = replace(s.value, was) // the same type formatted it
			out = append(out, leftOut{name, err.Error()})
		}
	}
	return out
}

// The error for a flag that the stored config can't set, and where to set it.
const neverStored = "cannot be set in the stored config"

func setBy(name string) string { return "must be set by --" + name + " or " + envName(name) }

func instead(name string) string { return neverStored + ": " + setBy(name) }

// envName returns the environment variable of a flag.
func envName(flag string) string {
	return "EDGESPAN_CONTROLLER_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// logLeftOut logs the ignored flags.
func logLeftOut(log *zap.Logger, left []leftOut) {
	for _, l := range left {
		log.Warn("ignoring a flag of the controller's config", zap.String("flag", l.name), zap.String("why", l.why))
	}
}

// validateChange implements ops.Snapshot.Own: it returns the faults of a change to the stored config. It ignores values
// that were stored before, so that other changes pass.
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
			if err := base.checkFlag(s.name, now[name].(string)); err != nil {
				faults.Add([]string{"flags", name}, err.Error(), "")
			}
		case now[name] == d.value.String(): // a complete file, with its defaults
		case asked:
			faults.Add([]string{"flags", name}, neverStored, setBy(s.name))
		default:
			notes = append(notes, fmt.Sprintf("flags.%s: %s", name, instead(s.name)))
		}
	}
	return faults, notes
}

// checkFlag returns the error of a flag's value together with all other flags, or nil.
func (o *Options) checkFlag(name, text string) error {
	next := o.clone()
	s, _ := next.find(name)
	if err := replace(s.value, text); err != nil {
		return err
	}
	return next.check()
}
