package firewall

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// base holds the chains each of the kernel's IPv4 tables had before edgespan. The nft backend of iptables creates
// tables and built-in chains when the first rule needs them and never deletes them; edgespan deletes those that it
// caused.
type base map[string][]string

func (f *Firewall) basePath() string { return filepath.Join(f.folder(0), "base.json") }

// recordBase records, once, the chains that existed before host's first chain.
func (f *Firewall) recordBase(ctx context.Context) error {
	if _, err := os.Stat(f.basePath()); err == nil {
		return nil
	}
	mode, err := f.mode(ctx)
	if err != nil {
		return err
	}
	if mode != "nf_tables" {
		return nil // the kernel itself creates the legacy backend's tables
	}
	b, err := f.listBase(ctx)
	if err != nil {
		return err
	}
	text, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("write base record: %w", err)
	}
	if err := os.MkdirAll(f.folder(0), 0o755); err != nil {
		return fmt.Errorf("write base record: %w", err)
	}
	// Write it by rename: a truncated record would be wrong.
	if err := os.WriteFile(f.basePath()+".new", text, 0o600); err != nil {
		return fmt.Errorf("write base record: %w", err)
	}
	if err := os.Rename(f.basePath()+".new", f.basePath()); err != nil {
		return fmt.Errorf("write base record: %w", err)
	}
	return nil
}

func (f *Firewall) listBase(ctx context.Context) (base, error) {
	out, err := f.run.Run(ctx, "", "nft", "list", "chains", "ip")
	return parseBase(out), err
}

// parseBase parses `nft list chains ip`.
func parseBase(out string) base {
	b, in := base{}, ""
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		switch {
		case len(words) >= 3 && words[0] == "table":
			in = words[2]
			b[in] = []string{}
		case len(words) >= 2 && words[0] == "chain":
			b[in] = append(b[in], words[1])
		}
	}
	return b
}

// dropBase removes the tables and chains that are not in the record, unless others use them by now. It leaves the rest:
// they are empty and accept.
func (f *Firewall) dropBase(ctx context.Context) error {
	text, err := os.ReadFile(f.basePath())
	if err != nil {
		return nil // without a record nothing is known to be edgespan's
	}
	var before base
	if err := json.Unmarshal(text, &before); err != nil {
		return fmt.Errorf("parse base record: %w", err)
	}
	now, err := f.listBase(ctx)
	if err != nil {
		return err
	}
	for _, name := range tableOrder {
		for _, chain := range now[name] {
			if isBuiltin(chain) && !slices.Contains(before[name], chain) {
				// The kernel refuses while the chain holds a rule or has another policy.
				_, _ = f.run.Run(ctx, "", "iptables", "-w", "5", "-t", name, "-X", chain)
			}
		}
		if _, was := before[name]; was {
			continue
		}
		left, err := f.run.Run(ctx, "", "nft", "list", "table", "ip", name)
		if err == nil && len(strings.Fields(left)) == 5 { // "table ip NAME { }"
			if _, err := f.run.Run(ctx, "", "nft", "delete", "table", "ip", name); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(f.basePath()); err != nil {
		return fmt.Errorf("remove base record: %w", err)
	}
	return ctx.Err()
}
