package pki

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// nextFile holds the next CA of a folder.
const nextFile = "ca.next.pem"

// NextCA creates the CA that will follow the folder's current one, and trusts it from now on; the current one keeps
// issuing. Nodes receive it when they renew their certificates. A second call completes an interrupted first one and
// changes nothing else.
func NextCA(dir string, now time.Time) (Pin, error) {
	own, err := readOwn(dir)
	if err != nil {
		return Pin{}, fmt.Errorf("make the next CA: %w", err)
	}
	path := filepath.Join(dir, nextFile)
	next, err := readBundle(path, 0o077)
	if errors.Is(err, fs.ErrNotExist) {
		if next, err = newCA(now); err == nil {
			err = writeBundle(path, next)
		}
	}
	if err != nil {
		return Pin{}, fmt.Errorf("make the next CA: %w", err)
	}
	if !slices.ContainsFunc(own.chain, same(next.chain[0])) {
		own.chain = append(own.chain, next.chain[0])
		if err := writeBundle(filepath.Join(dir, "ca.pem"), own); err != nil {
			return Pin{}, fmt.Errorf("make the next CA: %w", err)
		}
	}
	return PinOf(next.chain[0]), nil
}

// SwitchCA makes the next CA of a folder the issuing one; the old one stays trusted.
func SwitchCA(dir string) (Pin, error) {
	own, err := readOwn(dir)
	if err != nil {
		return Pin{}, fmt.Errorf("switch to the next CA: %w", err)
	}
	path := filepath.Join(dir, nextFile)
	next, err := readBundle(path, 0o077)
	if err != nil {
		return Pin{}, fmt.Errorf("switch to the next CA: %w", err)
	}
	first := next.chain[0]
	if !slices.ContainsFunc(own.chain, same(first)) {
		return Pin{}, fmt.Errorf("switch to the next CA: %s does not trust it yet: run 'edgespan-controller ca next' first",
			filepath.Join(dir, "ca.pem"))
	}
	if !same(first)(own.chain[0]) {
		own.key = next.key
		own.chain = append([]*x509.Certificate{first}, slices.DeleteFunc(own.chain, same(first))...)
		if err := writeBundle(filepath.Join(dir, "ca.pem"), own); err != nil {
			return Pin{}, fmt.Errorf("switch to the next CA: %w", err)
		}
	}
	return PinOf(first), os.Remove(path)
}

// DropCA removes trust from all CAs except the issuing one: their certificates are no longer valid.
func DropCA(dir string) (Pin, error) {
	own, err := readOwn(dir)
	if err != nil {
		return Pin{}, fmt.Errorf("drop the CA before: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, nextFile)); err == nil {
		return Pin{}, fmt.Errorf("drop the previous CA: %s exists: run 'edgespan-controller ca switch' first", nextFile)
	}
	own.chain = own.chain[:1]
	return PinOf(own.chain[0]), writeBundle(filepath.Join(dir, "ca.pem"), own)
}

func readOwn(dir string) (bundle, error) {
	path := filepath.Join(dir, "ca.pem")
	b, err := readBundle(path, 0o077)
	if err == nil && (b.key == nil || len(b.chain) == 0) {
		err = fmt.Errorf("%s has to hold one key and its certificate", path)
	}
	return b, err
}

func same(as *x509.Certificate) func(*x509.Certificate) bool {
	return func(c *x509.Certificate) bool { return bytes.Equal(c.Raw, as.Raw) }
}
