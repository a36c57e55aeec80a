package staged

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/fleet/rollout"
)

// Staging holds the flags of the controller's config for staged rollouts.
type Staging struct {
	On  bool
	Set rollout.Settings
}

// yes lists the values that turn a flag on, as in the seed's flags.
var yes = []string{"true", "1", "yes", "t", "y"}

// StagingOf reads the flags of a file. Flags of the process take precedence, and an unreadable flag counts as its
// default: the file was checked when it was written.
func StagingOf(doc config.Object, given map[string]string) Staging {
	said := map[string]string{}
	flags, _ := controllerconf.Flags(doc)
	for _, f := range flags {
		said[f.Name] = f.Value
	}
	text := func(name string) string { return cmp.Or(given[name], said[name]) }
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(text(name)); err == nil && n >= 0 {
			return n
		}
		return otherwise
	}
	seconds := func(name string, otherwise int) time.Duration {
		return time.Duration(number(name, otherwise)) * time.Second
	}
	on := slices.Contains(yes, strings.ToLower(text("config_staged_rollout_enabled")))
	s := Staging{On: on, Set: rollout.Settings{
		Options: rollout.Options{AssumeAlive: true, Limit: number("config_rollout_batch_limit", 0),
			First: number("config_rollout_canary", 1)},
		Confirm: seconds("config_batch_timeout_s", 180), Rest: seconds("config_rollout_rest_s", 0),
		Failures:        number("config_rollout_failures", 0),
		FailuresPercent: number("config_rollout_failures_percent", 1),
		OfflinePercent:  number("config_rollout_offline_percent", 5),
	}}
	for _, word := range strings.Split(text("config_rollout_stages"), ",") {
		if n, err := strconv.Atoi(word); err == nil {
			s.Set.Stages = append(s.Set.Stages, n)
		}
	}
	if s.Set.Stages == nil {
		s.Set.Stages = []int{10, 50}
	}
	return s
}
