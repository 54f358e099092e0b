// Judges one history with Porcupine and prints what came of it as one JSON object.
//
// Usage: judge FILE SECONDS. FILE: a first line "int" or "text" (what values are), then one line an
// operation, fields separated by tabs: client, key, function, input, expected, output, type (0 ok,
// 1 refused, 2 indeterminate), invocation, completion. Text fields are quoted as Go does.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

type input struct {
	f, key, value, expected int
	text                    string
}

type output struct {
	kind, value int
	text        string
}

const (
	read = iota
	write
	cas
	get
	put
	appendTo
)

func partition(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[int][]porcupine.Operation{}
	var keys []int
	for _, o := range history {
		key := o.Input.(input).key
		if _, known := parts[key]; !known {
			keys = append(keys, key)
		}
		parts[key] = append(parts[key], o)
	}
	result := make([][]porcupine.Operation, 0, len(keys))
	for _, key := range keys {
		result = append(result, parts[key])
	}
	return result
}

var register = porcupine.Model{
	Partition: partition,
	Init:      func() interface{} { return 0 },
	Step: func(s, i, o interface{}) (bool, interface{}) {
		state, in, out := s.(int), i.(input), o.(output)
		switch in.f {
		case read:
			return out.value == state, state
		case write:
			return true, in.value
		default:
			if out.kind == 1 {
				return state != in.expected, state
			}
			if state == in.expected {
				return true, in.value
			}
			return out.kind == 2, state // an indeterminate one may have been refused
		}
	},
}

var text = porcupine.Model{
	Partition: partition,
	Init:      func() interface{} { return "" },
	Step: func(s, i, o interface{}) (bool, interface{}) {
		state, in, out := s.(string), i.(input), o.(output)
		switch in.f {
		case get:
			return out.text == state, state
		case put:
			return true, in.text
		default:
			return true, state + in.text
		}
	},
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func load(name string) (porcupine.Model, []porcupine.Operation) {
	file, err := os.Open(name)
	check(err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 1<<20), 1<<30)
	lines.Scan()
	isText := lines.Text() == "text"
	var history []porcupine.Operation
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		number := func(at int) int {
			n, err := strconv.Atoi(fields[at])
			check(err)
			return n
		}
		in := input{f: number(2), key: number(1)}
		out := output{kind: number(6)}
		if isText {
			in.text, err = strconv.Unquote(fields[3])
			check(err)
			out.text, err = strconv.Unquote(fields[5])
			check(err)
		} else {
			in.value, in.expected, out.value = number(3), number(4), number(5)
		}
		end := int64(number(8))
		if out.kind == 2 {
			end = math.MaxInt64
		}
		history = append(history, porcupine.Operation{
			ClientId: number(0), Input: in, Call: int64(number(7)), Output: out, Return: end,
		})
	}
	check(lines.Err())
	if isText {
		return text, history
	}
	return register, history
}

func peakMB() int {
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "VmHWM:") {
			kb, _ := strconv.Atoi(strings.Fields(line)[1])
			return kb / 1024
		}
	}
	return 0
}

func cpuMS() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	ms := func(t syscall.Timeval) float64 { return float64(t.Sec)*1e3 + float64(t.Usec)/1e3 }
	return ms(usage.Utime) + ms(usage.Stime)
}

func main() {
	limit, err := strconv.ParseFloat(os.Args[2], 64)
	check(err)
	begun := time.Now()
	model, history := load(os.Args[1])
	loaded := time.Since(begun)
	var times, cpu []float64
	verdict := porcupine.Unknown
	for spent := 0.0; len(times) < 5 && (len(times) == 0 || spent < 1000); {
		begun = time.Now()
		cpuBefore := cpuMS()
		verdict = porcupine.CheckOperationsTimeout(model, history, time.Duration(limit*float64(time.Second)))
		times = append(times, float64(time.Since(begun).Nanoseconds())/1e6)
		cpu = append(cpu, cpuMS()-cpuBefore)
		spent += times[len(times)-1]
		if verdict == porcupine.Unknown {
			break
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]interface{}{
		"verdict": string(verdict), "times_ms": times, "cpu_ms": cpu, "load_ms": loaded.Milliseconds(), "peak_mb": peakMB(),
	}))
}
