package org.apache.kafka.raft;

import org.apache.kafka.common.Uuid;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.zip.CRC32C;

/** What happened in one step, in order, as bytes; the layouts are those of frames.py. */
final class Effects {
    static final int LOG = 0;
    static final int STATE_FILE = 1;
    static final int SNAPSHOT = 2;

    private interface Body {
        void write(DataOutputStream out) throws IOException;
    }

    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final DataOutputStream out = new DataOutputStream(bytes);
    boolean logs;

    private void put(int kind, Body body) {
        try {
            out.writeByte(kind);
            body.write(out);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static String text(DataInputStream in) throws IOException {
        return new String(blob(in), StandardCharsets.UTF_8);
    }

    static byte[] blob(DataInputStream in) throws IOException {
        return in.readNBytes(in.readInt());
    }

    private static void text(DataOutputStream to, String text) throws IOException {
        blob(to, text.getBytes(StandardCharsets.UTF_8));
    }

    private static void blob(DataOutputStream to, byte[] data) throws IOException {
        to.writeInt(data.length);
        to.write(data);
    }

    static int crc(byte[] data) {
        CRC32C crc = new CRC32C();
        crc.update(data, 0, data.length);
        return (int) crc.getValue();
    }

    void send(int correlation, int node, String host, int port, short api, short version, byte[] body) {
        put(1, o -> {
            o.writeInt(correlation);
            o.writeInt(node);
            text(o, host);
            o.writeInt(port);
            o.writeShort(api);
            o.writeShort(version);
            blob(o, body);
        });
    }

    void reply(long token, byte[] body) {
        put(2, o -> {
            o.writeLong(token);
            blob(o, body);
        });
    }

    void state(int epoch, int leader, int voted) {
        put(3, o -> {
            o.writeInt(epoch);
            o.writeInt(leader);
            o.writeInt(voted);
        });
    }

    void append(long base, long last, int epoch, byte[] batch) {
        put(4, o -> {
            o.writeLong(base);
            o.writeLong(last);
            o.writeInt(epoch);
            o.writeInt(crc(batch));
        });
    }

    void flush(long offset) {
        put(5, o -> o.writeLong(offset));
    }

    void truncate(long offset) {
        put(6, o -> o.writeLong(offset));
    }

    void highWatermark(long offset) {
        put(7, o -> o.writeLong(offset));
    }

    void commit(long offset, int epoch, byte[] value) {
        put(8, o -> {
            o.writeLong(offset);
            o.writeInt(epoch);
            blob(o, value);
        });
    }

    void leader(int epoch, int leader) {
        put(9, o -> {
            o.writeInt(epoch);
            o.writeInt(leader);
        });
    }

    /** An exception that ends the raft thread: its class, its text, and Kafka's first line in its trace. */
    void fault(Throwable error) {
        String where = "";
        for (StackTraceElement line : error.getStackTrace()) {
            String name = line.getClassName();
            if (name.startsWith("org.apache.kafka.") && !name.startsWith("org.apache.kafka.raft.Sim")) {
                where = name.substring(name.lastIndexOf('.') + 1) + "." + line.getMethodName()
                    + "(" + line.getFileName() + ":" + line.getLineNumber() + ")";
                break;
            }
        }
        String place = where;
        put(10, o -> {
            text(o, error.getClass().getName());
            text(o, String.valueOf(error.getMessage()));
            text(o, place);
        });
    }

    void role(String role) {
        put(11, o -> text(o, role));
    }

    void appended(long offset) {
        put(12, o -> o.writeLong(offset));
    }

    void refused(String why) {
        put(13, o -> text(o, why));
    }

    void log(String line) {
        if (logs) {
            put(14, o -> text(o, line));
        }
    }

    void inFlush(int what, long offset) {
        put(16, o -> {
            o.writeByte(what);
            o.writeLong(offset);
        });
    }

    void down() {
        put(17, o -> { });
    }

    void snapshot(long offset, int epoch, byte[] content) {
        put(18, o -> {
            o.writeLong(offset);
            o.writeInt(epoch);
            o.writeLong(content.length);
            o.writeInt(crc(content));
        });
    }

    void loaded(long offset, int epoch, long values, int crc) {
        put(19, o -> {
            o.writeLong(offset);
            o.writeInt(epoch);
            o.writeLong(values);
            o.writeInt(crc);
        });
    }

    void logStart(long offset) {
        put(20, o -> o.writeLong(offset));
    }

    void disk(long start, long end, long flushed, long highWatermark) {
        put(21, o -> {
            o.writeLong(start);
            o.writeLong(end);
            o.writeLong(flushed);
            o.writeLong(highWatermark);
        });
    }

    void batch(long base, long last, int epoch, byte[] content) {
        put(22, o -> {
            o.writeLong(base);
            o.writeLong(last);
            o.writeInt(epoch);
            blob(o, content);
        });
    }

    void checkpoint(long offset, int epoch, byte[] content) {
        put(23, o -> {
            o.writeLong(offset);
            o.writeInt(epoch);
            blob(o, content);
        });
    }

    void api(short api, short lowest, short highest) {
        put(24, o -> {
            o.writeShort(api);
            o.writeShort(lowest);
            o.writeShort(highest);
        });
    }

    void voters(long offset, Map<Integer, Uuid> directories) {
        put(25, o -> {
            o.writeLong(offset);
            o.writeInt(directories.size());
            for (Map.Entry<Integer, Uuid> voter : directories.entrySet()) {
                o.writeInt(voter.getKey());
                o.writeLong(voter.getValue().getMostSignificantBits());
                o.writeLong(voter.getValue().getLeastSignificantBits());
            }
        });
    }

    void end(boolean alive, long wake, long endOffset, long flushed) {
        put(0, o -> {
            o.writeBoolean(alive);
            o.writeLong(wake);
            o.writeLong(endOffset);
            o.writeLong(flushed);
        });
    }

    byte[] take() {
        byte[] all = bytes.toByteArray();
        bytes.reset();
        return all;
    }
}
