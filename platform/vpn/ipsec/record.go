package ipsec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

// ports are the UDP ports of IKE, and of IKE and ESP behind a NAT.
type ports struct {
	IKE int `json:"ike"`
	NAT int `json:"nat"`
}

// record is the file of a tunnel in its folder. It is written before the start, without an identity, and again after
// it. It has no secret.
type record struct {
	proc.Ident
	Number     int                    `json:"number"`
	Name       string                 `json:"name"`
	Link       string                 `json:"link"`
	MTU        int                    `json:"mtu"`
	Mark       uint32                 `json:"mark"`
	Generation uint64                 `json:"generation"`
	Limits     netstate.ProcessLimits `json:"limits,omitzero"`
	By         string                 `json:"by"`
	Config     string                 `json:"config"` // strongswan.conf
	Ports      ports                  `json:"ports"`
	Peer       peer                   `json:"peer"`
	Conn       map[string]any         `json:"conn"` // as it is loaded, without remote_addrs
	// Files are the digests of the files that certificates and keys are from, by path.
	Files map[string]string `json:"files,omitempty"`
}

func read(folder string) (record, error) {
	var r record
	b, err := os.ReadFile(filepath.Join(folder, recordFile))
	if err != nil {
		return r, fmt.Errorf("read record: %w", err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("parse record: %w", err)
	}
	return r, nil
}

func write(folder string, r record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return writeFile(filepath.Join(folder, recordFile), b)
}

// writeFile replaces a file that only root may read.
func writeFile(path string, b []byte) error {
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// normal is a connection as it is after it was recorded.
func normal(conn map[string]any) map[string]any {
	b, err := json.Marshal(conn)
	out := map[string]any{}
	if err == nil {
		_ = json.Unmarshal(b, &out) // what was just marshaled
	}
	return out
}

// filesOf returns the digests of the files that the certificates and keys of a connection are from, by path. One that
// can't be read has none: the tunnel is not made without it, and one that stands keeps what it has.
func filesOf(c *netstate.IPsec) map[string]string {
	out := map[string]string{}
	for _, path := range append([]string{c.Local.Certificate, c.Local.Key, c.Local.CA, c.Remote.CA}, c.Files...) {
		if !strings.HasPrefix(path, "/") {
			continue
		}
		if text, err := readMaterial(path); err == nil {
			out[path] = digest(text)
		}
	}
	return out
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// isRenewed reports whether a file has other certificates or keys than charon was given.
func (r record) isRenewed() bool {
	for path, was := range r.Files {
		if text, err := readMaterial(path); err == nil && digest(text) != was {
			return true
		}
	}
	return false
}
