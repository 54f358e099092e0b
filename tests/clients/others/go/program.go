// Command others runs the operations of three Go clients, each as a line of JSON on its standard
// output: go run . BROKERS CONTROLLERS CLIENT.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

const limit = 30 * time.Second

// Program prints what becomes of operations.
type Program struct{ client string }

func newProgram(client, module string) *Program {
	information, _ := debug.ReadBuildInfo()
	for _, each := range information.Deps {
		if each.Path == module {
			client += " " + strings.TrimPrefix(each.Version, "v")
		}
	}
	return &Program{client}
}

func print(fields map[string]string) {
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

type operation func(ctx context.Context) (any, error)

// operation runs one; what it returns are words that are equal where behaviour is.
func (p *Program) operation(name string, run operation) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	type result struct {
		seen any
		err  error
	}
	done := make(chan result, 1)
	go func() {
		seen, err := run(ctx)
		done <- result{seen, err}
	}()
	var found result
	select {
	case found = <-done:
	case <-time.After(limit + time.Second):
		found.err = fmt.Errorf("no answer in %s", limit)
	}
	outcome, seen := "works", ""
	if found.err != nil {
		outcome, seen = "fails", found.err.Error()
	} else if found.seen != nil {
		seen = fmt.Sprint(found.seen)
	}
	print(map[string]string{
		"client": p.client, "operation": name, "outcome": outcome, "seen": seen,
	})
}

// refused runs an operation that must be refused: what works is the refusal.
func (p *Program) refused(name, expected string, run operation) {
	p.operation(name, func(ctx context.Context) (any, error) {
		seen, err := run(ctx)
		if err == nil {
			return nil, fmt.Errorf("not refused: %v", seen)
		}
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(expected)) {
			return nil, err
		}
		return expected, nil
	})
}

// createWhileControllersRestart has the harness restart active controllers.
func (p *Program) createWhileControllersRestart(create func(ctx context.Context, name string) error) {
	prefix := strings.Fields(p.client)[0]
	done := make(chan struct{})
	failed, count := []string{}, 0
	print(map[string]string{"client": p.client, "ask": "restart controllers"})
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		close(done)
	}()
	for running := true; running; {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		if err := create(ctx, fmt.Sprintf("%s-rolling-%d", prefix, count)); err != nil {
			failed = append(failed, err.Error())
		}
		cancel()
		count++
		select {
		case <-done:
			running = false
		case <-time.After(100 * time.Millisecond):
		}
	}
	p.operation("create topics while controllers restart", func(context.Context) (any, error) {
		if len(failed) > 0 {
			return nil, fmt.Errorf("%d of %d: %s", len(failed), count, failed[0])
		}
		return "none fails", nil
	})
}

// settle waits until every broker has seen what was changed.
func settle() { time.Sleep(time.Second) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	brokers := strings.Split(os.Args[1], ",")
	switch os.Args[3] {
	case "kadm":
		runKadm(brokers)
	case "sarama":
		runSarama(brokers)
	case "kafka-go":
		runKafkaGo(brokers)
	default:
		panic(os.Args[3])
	}
}
