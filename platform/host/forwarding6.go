package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/kernel"
)

// keepRouters writes a forwarding setting of IPv6 by which the host itself must not change: what it learns from router
// advertisements stays, and it goes on listening to them. conf is the folder of the settings by link.
//
// The kernel does more than it is asked for (net/ipv6/addrconf.c, addrconf_fixup_forwarding):
//   - To turn forwarding on, for all links or for one, deletes the learnt default routes of all links without
//     accept_ra 2, so they have it while it is written. Where accept_ra was 1 and forwarding is off, 2 means the same:
//     an end between the writes leaves nothing that others notice.
//   - To write the setting of all links writes that of each link and the default, by which a link accepts router
//     advertisements no more. So these are written back.
func keepRouters(conf, key string, write func() error) error {
	entries, err := os.ReadDir(conf)
	if err != nil {
		return err
	}
	var accept, forward []setting
	for _, e := range entries {
		if e.Name() == "all" {
			continue
		}
		_, own := kernel.LinkNumber(e.Name())
		if s, ok := readSetting(filepath.Join(conf, e.Name(), "accept_ra")); ok && s.value == "1" && !own {
			accept = append(accept, s)
		}
		if s, ok := readSetting(filepath.Join(conf, e.Name(), "forwarding")); ok {
			forward = append(forward, s)
		}
	}
	var errs []error
	for _, s := range accept {
		errs = append(errs, s.write("2"))
	}
	errs = append(errs, write())
	if key == netstate.ForwardAll6 {
		for _, s := range forward {
			if now, ok := readSetting(s.path); ok && now.value != s.value {
				errs = append(errs, s.write(s.value))
			}
		}
	}
	for _, s := range accept {
		errs = append(errs, s.write("1"))
	}
	return errors.Join(errs...)
}

// setting is a setting of a link, which may end at any time.
type setting struct{ path, value string }

func readSetting(path string) (setting, bool) {
	b, err := os.ReadFile(path)
	return setting{path, strings.TrimSpace(string(b))}, err == nil
}

func (s setting) write(value string) error {
	if err := os.WriteFile(s.path, []byte(value), 0o644); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
