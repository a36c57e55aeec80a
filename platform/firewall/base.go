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

// base is which chains each of the kernel's IPv4 tables had before us. The nft
// backend of iptables makes tables and built-in chains when the first rule needs
// them and keeps them for ever; what came with us goes with us.
type base map[string][]string

func (f *Firewall) basePath() string { return filepath.Join(f.folder(0), "base.json") }

// recordBase notes, once, what was there before host's first chain.
func (f *Firewall) recordBase(ctx context.Context) error {
	if _, err := os.Stat(f.basePath()); err == nil {
		return nil
	}
	mode, err := f.mode(ctx)
	if err != nil {
		return err
	}
	if mode != "nf_tables" {
		return nil // the legacy backend's tables are the kernel's own
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
	// A record that is cut short is no record: it must appear whole.
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

// parseBase reads `nft list chains ip`.
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

// dropBase removes what the record says was not there before us, if nobody else
// uses it by now. What can't be removed stays: it is empty and accepts.
func (f *Firewall) dropBase(ctx context.Context) error {
	text, err := os.ReadFile(f.basePath())
	if err != nil {
		return nil // never recorded: nothing is known to be ours
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
				// Refused by the kernel while it holds a rule or another policy.
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
